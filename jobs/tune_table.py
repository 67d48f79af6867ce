"""The table of batch sizes: memory, throughput, latency, and the gain over the smallest; as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.tuning.figures import Profile, SizeFigures, TunedBucket
from pipeline.tuning.tuning import Tuning, team_in_words

HEAD = ("batch", "memory", "pages/s", "tokens/s", "latency", "95 %", "idle", "padding", "gain", "")
_SECTION_HEAD = ("batch", "memory", "pages/s", "tokens/s", "latency, median (95 %)", "gain over one", "")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, as texts; `mark` says what the size is chosen for."""

    batch: str
    memory: str = ""
    pages: str = ""
    tokens: str = ""
    median: str = ""
    p95: str = ""
    idle: str = ""
    padding: str = ""
    gain: str = ""
    mark: str = ""

    def cells(self) -> tuple[str, ...]:
        """In the order of `HEAD`."""
        texts = (self.batch, self.memory, self.pages, self.tokens, self.median, self.p95, self.idle, self.padding)
        return (*texts, self.gain, self.mark)


def rows(tuned: TunedBucket, profile: Profile, max_latency_s: float | None) -> list[Row]:
    """A line for every size."""
    return [_row(figures, tuned, profile, max_latency_s) for figures in tuned.sizes]


def _row(figures: SizeFigures, tuned: TunedBucket, profile: Profile, max_latency_s: float | None) -> Row:
    if figures.out_of_memory or figures not in tuned.ran:
        return Row(str(figures.batch_size), "out of memory" if figures.out_of_memory else "above a size without memory")
    return Row(
        batch=str(figures.batch_size),
        memory=memory(figures),
        pages=f"{number(figures.pages_per_s)} ± {number(figures.pages_per_s_spread)}",
        tokens=number(figures.tokens_per_s),
        median=seconds(figures.latency_median_s),
        p95=seconds(figures.latency_p95_s),
        idle="-" if figures.idle_ratio is None else f"{figures.idle_ratio:.0%}",
        padding=f"{figures.padding_ratio:.1%}",
        gain=f"{figures.pages_per_s / tuned.ran[0].pages_per_s:.2f}",
        mark=_mark(figures, tuned, profile, max_latency_s),
    )


def _mark(figures: SizeFigures, tuned: TunedBucket, profile: Profile, max_latency_s: float | None) -> str:
    knee = tuned.knee(max_latency_s)
    is_knee = knee is not None and knee.batch_size == figures.batch_size
    is_taken = tuned.size_for(profile, max_latency_s) == figures.batch_size
    return ", ".join([*(["knee"] if is_knee else []), *([f"taken by {profile}"] if is_taken else [])])


def memory(figures: SizeFigures) -> str:
    """Reserved, with what tensors take of it in brackets; or the memory of the process."""
    if figures.memory_reserved_bytes is None or figures.memory_allocated_bytes is None:
        return _gib(figures.host_memory_bytes)
    return f"{_gib(figures.memory_reserved_bytes)} ({_gib(figures.memory_allocated_bytes)})"


def table(tuned: TunedBucket, profile: Profile, max_latency_s: float | None) -> Iterator[str]:
    """The lines of the table of a bucket, columns aligned to the right, the marks to the left."""
    lines = [HEAD, *(row.cells() for row in rows(tuned, profile, max_latency_s))]
    measured = [line for line in lines if any(line[2:])]
    widths = [max(len(line[column]) for line in measured) for column in range(len(HEAD))]
    for line in lines:
        if any(line[2:]):
            texts = [text.rjust(width) for text, width in zip(line[:-1], widths, strict=False)]
            yield "  ".join([*texts, line[-1]]).rstrip()
        else:
            yield f"{line[0].rjust(widths[0])}  {line[1]}"


def section(tuning: Tuning, profile: Profile = "balanced", max_latency_s: float | None = None) -> str:
    """The README's table of a tuning, as Markdown."""
    return "\n".join(_section(tuning, profile, max_latency_s))


def _section(tuning: Tuning, profile: Profile, max_latency_s: float | None) -> Iterator[str]:
    key = tuning.key
    model = f" with {key.model}" if key.model else ""
    libraries = ", ".join(f"{name} {version}" for name, version in key.libraries)
    said = ", ".join(filter(None, [f"`{key.engine}`{model}", key.precision, key.device, libraries]))
    yield f"{said}, measured {tuning.measured_at[:10]}:"
    for tuned in tuning.buckets:
        yield ""
        yield f"Pages up to length {tuned.bucket}:"
        yield ""
        yield f"| {' | '.join(_SECTION_HEAD)} |".replace("|  |", "| |")
        yield "|" + "---|" * len(_SECTION_HEAD)
        for row in rows(tuned, profile, max_latency_s):
            latency = f"{row.median} ({row.p95})" if row.median else ""
            mark = f"**{row.mark}**" if row.mark else ""
            cells = (row.batch, row.memory, row.pages, row.tokens, latency, row.gain, mark)
            yield "| " + " | ".join(cells).rstrip() + " |"
    if tuning.actors and tuning.threads:
        yield ""
        yield f"{team_in_words(tuning.actors, tuning.threads)}: so most is read on this machine."


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(value: float) -> str:
    """Milliseconds below one second."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{number(value)} s"


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / _GIB:.1f} GiB" if num_bytes >= _GIB else f"{num_bytes / (1 << 20):.0f} MiB"


def sizes_in_words(buckets: Sequence[TunedBucket], profile: Profile, max_latency_s: float | None) -> str:
    """The answer in a line: ``8 for pages up to 600, 4 up to 1200``."""
    return ", ".join(f"{tuned.size_for(profile, max_latency_s)} for pages up to {tuned.bucket}" for tuned in buckets)
