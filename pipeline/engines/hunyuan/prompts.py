"""Prompts: what HunyuanOCR can be asked for, by name, in the words that its makers recommend. Pure.

The Chinese wording is that of HunyuanOCR 1.5 (``inference/utils/tasks.py`` in Tencent-Hunyuan/HunyuanOCR), or of 1.0
(the table of prompts in its README, which is the model card) where 1.5 has none: fields and subtitles. The English
wording is that of 1.0's card, which has none for `spotting-json`, `layout` and translation into Chinese: those three
are ours. 1.5 was published with Chinese prompts only, for documents in any language, and the Chinese ones score better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline.errors import ConfigurationError
from pipeline.option import nearest

DEFAULT_TASK = "parse"
LANGUAGES = ("zh", "en")


@dataclass(frozen=True, slots=True)
class Task:
    """What the model is asked: `name` as the job says it, `prompt` as the model reads it.

    `format` is the word for the row's `format` column (text, markdown, html, json). With `has_boxes` the answer is made
    of lines with boxes, which `pipeline.engines.hunyuan.spotting` reads. What `layout` says of regions stays in its
    text: ``text<hy-meta><layout>KIND</layout><poly>(x,y),(x,y),(x,y),(x,y)</poly></hy-meta>`` or JSON.
    """

    name: str
    prompt: str
    format: str
    has_boxes: bool = False


@dataclass(frozen=True, slots=True)
class _Words:
    zh: str
    en: str
    format: str
    has_boxes: bool = False

    def ask(self, name: str, language: str, /, **parts: str) -> Task:
        """The task in one language, with `parts` put in where it names them in angle brackets."""
        prompt = self.zh if language == "zh" else self.en
        for part, text in parts.items():
            prompt = prompt.replace(f"<{part}>", text)
        return Task(name, prompt, self.format, self.has_boxes)


_PARSE = _Words(
    "提取文档图片中正文的所有信息用markdown格式表示，其中页眉、页脚部分忽略，表格用html格式表达，"
    "文档中公式用latex格式表示，按照阅读顺序组织进行解析。",
    "Extract all information from the main body of the document image and represent it in markdown format, ignoring "
    "headers and footers. Tables should be expressed in HTML format, formulas in the document should be represented "
    "using LaTeX format, and the parsing should be organized according to the reading order.",
    "markdown",
)
_SPOTTING_JSON = _Words(
    "检测并识别图中所有的文字行，请按从上到下、从左到右的阅读顺序进行识别。 "
    '输出格式为 JSON 数组，每个元素必须包含："box": [xmin, ymin, xmax, ymax]（坐标需归一化到 [0, 1000] 范围内）；'
    '"text": "识别出的文字内容"。 注意：请直接输出 JSON 数组，不要包含任何多余的描述性文字。',
    "Detect and recognize all lines of text in the image, in reading order from top to bottom and from left to right. "
    'Output a JSON array in which each element has "box": [xmin, ymin, xmax, ymax] (coordinates normalized to the '
    'range [0, 1000]) and "text": "the recognized text". Output the JSON array only, without any further description.',
    "json",
    has_boxes=True,
)

_PLAIN: Mapping[str, _Words] = {
    "parse": _PARSE,
    "text": _Words("提取图中的文字。", "Extract the text in the image.", "text"),
    "spotting": _Words(
        "检测并识别图片中的文字，将文本坐标格式化输出。",
        "Detect and recognize text in the image, and output the text coordinates in a formatted manner.",
        "text",
        has_boxes=True,
    ),
    "spotting-json": _SPOTTING_JSON,
    "table": _Words("把图中的表格解析为HTML。", "Parse the table in the image into HTML.", "html"),
    "formula": _Words(
        "识别图片中的公式，用LaTeX格式表示。",
        "Identify the formula in the image and represent it using LaTeX format.",
        "markdown",
    ),
    "chart": _Words(
        "解析图中的图表，对于流程图使用Mermaid格式表示，其他图表使用Markdown格式表示。",
        "Parse the chart in the image; use Mermaid format for flowcharts and Markdown for other charts.",
        "markdown",
    ),
    "subtitles": _Words("提取图片中的字幕。", "Extract the subtitles from the image.", "text"),
    "layout": _Words(
        "按照阅读顺序解析图中的版式信息。",
        "Parse the layout information in the image according to the reading order.",
        "text",
    ),
}

_FIELDS = _Words(
    "提取图片中的: <names> 的字段内容，并按照 JSON 格式返回。",
    "Extract the content of the fields: <names> from the image and return it in JSON format.",
    "json",
)
_TRANSLATE = _Words(
    "按照阅读顺序，提取图中文字，公式用latex格式表示，表格用markdown格式表示，再将文字内容翻译为<language>。",
    "First extract the text, then translate the text content into <language>. If it is a document, ignore the header "
    "and footer. Formulas should be represented in LaTeX format, and tables should be represented in HTML format.",
    "markdown",
)
_INTO = {"en": {"zh": "英文", "en": "English"}, "zh": {"zh": "中文", "en": "Chinese"}}


def task_named(name: str, language: str = "zh") -> Task:
    """The task of this name, worded in Chinese (``zh``) or English (``en``).

    Args:
        name: One of the plain names, `fields:NAME,NAME`, or `translate:en` or `translate:zh`.
        language: What the prompt is written in; what the document is written in does not matter.

    Raises:
        ConfigurationError: there is no such task or language, or what belongs after the colon is missing.
    """
    if language not in LANGUAGES:
        raise ConfigurationError(f"prompts are in one of {', '.join(LANGUAGES)}, not '{language}'")
    kind, colon, details = name.partition(":")
    if kind in _PLAIN and not colon:
        return _PLAIN[kind].ask(name, language)
    if kind not in _DETAILED:
        raise ConfigurationError(f"there is no task '{name}'{nearest(name, [*_PLAIN, *_DETAILED])}")
    return _DETAILED[kind](details, language)


def _fields(details: str, language: str) -> Task:
    names = [field.strip() for field in details.split(",") if field.strip()]
    if not names:
        raise ConfigurationError("the task 'fields' needs the names of fields: fields:NAME,NAME")
    return _FIELDS.ask(f"fields:{','.join(names)}", language, names=str(names))


def _translate(details: str, language: str) -> Task:
    if details not in _INTO:
        raise ConfigurationError(f"the task 'translate' is translate:en or translate:zh, not 'translate:{details}'")
    return _TRANSLATE.ask(f"translate:{details}", language, language=_INTO[details][language])


_DETAILED: Mapping[str, Callable[[str, str], Task]] = {"fields": _fields, "translate": _translate}
