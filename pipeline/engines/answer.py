"""Answer: what becomes the row of a page that a model has written, from what the ladder has kept of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.engines.certainty import score_of
from pipeline.engines.ladder import Kept
from pipeline.result import Finish, Line, Recognition


def recognition_of(
    kept: Kept, text: str, text_format: str, *, lines: Sequence[Line] = (), note: str | None = None
) -> Recognition:
    """The row of a page.

    Args:
        kept: What was kept. An answer that stops where numbers cease to be finite is not whole.
        text: Its text.
        text_format: The word for the `format` column.
        lines: Its lines, where they are known.
        note: One more thing to say of it.
    """
    written = kept.answer
    return Recognition(
        text,
        text_format,
        tuple(lines),
        confidence=score_of(written.mean_logprob),
        output_tokens=kept.num_written,
        finish_reason=written.finish if written.is_finite else Finish.LENGTH,
        mean_logprob=written.mean_logprob,
        min_logprob=written.min_logprob,
        tries=kept.tries,
        note="; ".join(filter(None, (kept.note, note))) or None,
    )
