"""The texts of the sample documents, written for this collection unless a comment names the source."""

LOCK_KEEPER = (
    (
        "The keeper of the lower lock begins the year with a clean ledger. Every boat that passes is entered"
        " with its name, its cargo and the hour, and the level of the water is read from the painted board at"
        " seven in the morning and at seven in the evening."
    ),
    (
        "In March the gates are drained for repair. The old oak is scraped, the iron straps are tightened, and"
        " any plank that gives under the thumb is taken out. For nine days no boat can pass."
    ),
    (
        "By October the leaves block the grating twice a day. The keeper rakes them out with a long fork, and"
        " the heap on the bank is warm enough to steam until the first frost."
    ),
)
MOBY_DICK = (  # Herman Melville, Moby-Dick, 1851
    (
        "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse,"
        " and nothing particular to interest me on shore, I thought I would sail about a little and see the"
        " watery part of the world."
    ),
    (
        "It is a way I have of driving off the spleen, and regulating the circulation. Whenever I find myself"
        " growing grim about the mouth; whenever it is a damp, drizzly November in my soul; whenever I find"
        " myself involuntarily pausing before coffin warehouses, and bringing up the rear of every funeral I"
        " meet, then, I account it high time to get to sea as soon as I can."
    ),
)
PRIDE_AND_PREJUDICE = (  # Jane Austen, Pride and Prejudice, 1813
    (
        "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in"
        " want of a wife."
    ),
    (
        "However little known the feelings or views of such a man may be on his first entering a neighbourhood,"
        " this truth is so well fixed in the minds of the surrounding families, that he is considered as the"
        " rightful property of some one or other of their daughters."
    ),
)
TWO_CITIES = (  # Charles Dickens, A Tale of Two Cities, 1859
    (
        "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of"
        " foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of Light,"
        " it was the season of Darkness, it was the spring of hope, it was the winter of despair, we"
        " had everything before us, we had nothing before us, we were all going direct to Heaven, we were all"
        " going direct the other way."
    ),
)
ARCHIVE_LETTER = (
    (
        "The box you sent reached us on 14 May. Of the 212 sheets in it, 37 are stained and 5 are torn along the"
        " fold, but all can be read."
    ),
    (
        "We will copy them at night, when the reading room is closed, and return the box by the end of June."
        " Please keep the key until then."
    ),
)
PAPER_LEFT = (
    (
        "Paper was once made from rags. Women sorted the cloth by colour and cut off every button and seam. The"
        " pieces were left wet in a heap until the fibres loosened."
    ),
    (
        "A wheel in the stream then drove wooden hammers that beat the rags to a milky pulp. A good mill ran its"
        " hammers day and night."
    ),
    (
        "The pulp was poured into a vat and warmed over a small fire. A boy stirred it with a paddle, for fibres"
        " that settle make a cloudy sheet."
    ),
)
PAPER_RIGHT = (
    (
        "The vatman dipped a mould of brass wire into the pulp and lifted out a thin, even layer. He shook it"
        " once each way so that the fibres locked."
    ),
    (
        "The coucher pressed the sheet onto felt. A stack of 144 sheets went under the screw press, and then each"
        " one was hung in the loft to dry for a week."
    ),
    (
        "Last came a bath of thin glue, which keeps ink from spreading, and a rub with a smooth stone. The best"
        " sheets went to the law courts."
    ),
)
WEIRS = (
    ("Weir", "River", "Level (cm)", "Rain (mm)"),
    ("North", "Aldern", "142", "18.5"),
    ("Mill", "Aldern", "97", "17.0"),
    ("Chapel", "Brede", "205", "22.3"),
    ("Ford", "Brede", "61", "9.8"),
    ("South", "Corran", "118", "14.1"),
)
RECEIPT_HEAD = ("CORNER BAKERY", "12 Mill Lane", "Receipt No. 00417")
RECEIPT_ITEMS = (
    ("2 Rye bread", "7.80"),
    ("6 Rolls", "3.60"),
    ("1 Plum cake", "14.50"),
    ("3 Ginger tea", "8.25"),
    ("4 Pretzels", "5.20"),
    ("1 Honey jar", "6.95"),
    ("2 Apple pie", "9.40"),
    ("1 Paper bag", "0.15"),
)
RECEIPT_SUMS = (
    ("Subtotal", "55.85"),
    ("Tax 5%", "2.79"),
    ("TOTAL", "58.64"),
    ("Cash", "60.00"),
    ("Change", "1.36"),
)
RECEIPT_FOOT = ("Thank you", "Come again soon")
CHINESE_PROSE = (
    ("造纸坊的早晨从水声开始。工人把竹子泡在池中，", "等它变软，再捣成细细的纸浆。"),
    ("师傅用竹帘捞起一层纸浆，轻轻摇匀。", "一天可以做三百张纸，晒干以后就能写字。"),
)
QUIET_NIGHT = ("床前明月光，", "疑是地上霜。", "举头望明月，", "低头思故乡。")  # Li Bai, 8th century
FRAMES = (
    ("Frame 1: Notice", "The reading room opens at nine. Leave coats and bags in the lockers by the stairs."),
    ("Frame 2: Rules", "Use pencil only. Keep maps flat on the table and ask before you copy a plate."),
    ("Frame 3: Closing", "The bell rings at half past five. Hand every volume back to the desk."),
)
NOTE = (
    "The meeting is moved to Thursday at 9:30 in the green room.",
    "Bring the blue folder, two sharp pencils and the list of spare parts.",
)
ORIENTATIONS = (
    ("Portrait", "This page is taller than wide and is stored as it is shown."),
    ("Landscape", "This page is wider than tall because its media box is."),
    ("Turned by 90", "This page is stored on its side and the viewer turns it back."),
    ("Turned by 180", "This page is stored upside down and the viewer turns it back."),
)
MONTH_LINES = (
    "Snow on the bridge",
    "Ice breaks below the weir",
    "Mud on every boot",
    "Swallows over the loft",
    "Hay cut in the long field",
    "Low water at the ford",
    "Thunder from the west",
    "Wasps in the orchard",
    "Apples stored in straw",
    "Fog until noon",
    "Candles lit at four",
    "The ledger is closed",
)
NUMBER_WORDS = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
