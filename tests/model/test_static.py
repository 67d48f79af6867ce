"""Static batches on a tiny random language model in fp32: every row is read as if it were alone."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding, Generated  # noqa: E402
from pipeline.engines.repetition import MIN_TOKENS  # noqa: E402
from pipeline.engines.static import generate  # noqa: E402
from pipeline.result import Finish  # noqa: E402

VOCABULARY, PAD, END = 40, 0, 1
PROMPTS = [[5, 6, 8], [9], [10, 11, 12, 13, 14, 15, 16], [6, 5, 8], [20, 21]]


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings = transformers.LlamaConfig(vocab_size=VOCABULARY, initializer_range=0.6, **shape)
    return transformers.LlamaForCausalLM(settings).eval()


def padded(prompts: list[list[int]]) -> dict[str, Any]:
    longest = max(map(len, prompts))
    ids = [[PAD] * (longest - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def answer(model: Any, prompts: list[list[int]], *, end: int = END, **asked: Any) -> list[Generated]:
    decoding = Decoding(**{"max_new_tokens": 40, **asked})
    return generate(model, padded(prompts), decoding, end_tokens=[end], pad_token=PAD)


ASKED = {
    "greedily": {},
    "with a penalty": {"repetition_penalty": 1.3},
    "by sampling": {"temperature": 0.8, "seed": 3, "repetition_penalty": 1.1},
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_row_reads_the_same_alone_in_every_place_and_in_any_company(model: Any, asked: dict[str, Any]):
    alone = [answer(model, [prompt], **asked)[0] for prompt in PROMPTS]
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 2], [2, 1, 0]):
        together = answer(model, [PROMPTS[index] for index in order], **asked)
        for index, row in zip(order, together, strict=True):
            assert row.tokens == alone[index].tokens
            assert row.finish is alone[index].finish
            assert row.logprobs == pytest.approx(alone[index].logprobs, abs=1e-4)


def test_answers_differ_and_end_in_both_ways(model: Any):
    rows = answer(model, PROMPTS, end=4)
    assert len({row.tokens for row in rows}) == len(rows)
    assert {row.finish for row in rows} == {Finish.STOP, Finish.LENGTH}
    assert all(4 not in row.tokens for row in rows), "the end token is no part of the answer"


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_tokens_are_those_of_transformers_and_log_probabilities_the_models_own(model: Any, penalty: float):
    (row,) = answer(model, PROMPTS[2:3], repetition_penalty=penalty)
    ids = padded(PROMPTS[2:3])
    theirs = model.generate(
        **ids, max_new_tokens=40, do_sample=False, repetition_penalty=penalty, eos_token_id=END, pad_token_id=PAD
    )[0, 7:].tolist()
    assert list(row.tokens) == [token for token in theirs if token != END]
    whole = torch.tensor([PROMPTS[2] + list(row.tokens)])
    own = model(input_ids=whole).logits[0, 6:-1].log_softmax(-1)
    wanted = own.gather(1, torch.tensor(row.tokens)[:, None])[:, 0].tolist()
    assert row.logprobs == pytest.approx(wanted, abs=1e-4)


def test_sampling_depends_on_the_seed_only(model: Any):
    first, again, other = (answer(model, PROMPTS, temperature=2.0, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert [row.tokens for row in first] != [row.tokens for row in other]


def test_sampling_follows_the_distribution(model: Any):
    """Of 300 first tokens drawn at temperature 1, each is as frequent as the model says, within chance."""
    drawn = [
        answer(model, [[5]], max_new_tokens=1, temperature=1.0, seed=seed, end=39)[0].tokens for seed in range(300)
    ]
    share = model(input_ids=torch.tensor([[5]])).logits[0, -1].detach().softmax(-1)
    likeliest = int(share.argmax())
    wanted = 300 * float(share[likeliest])
    assert drawn.count((likeliest,)) == pytest.approx(wanted, abs=4 * (wanted * (1 - wanted / 300)) ** 0.5)


def test_a_row_that_repeats_itself_is_stopped_alone_and_at_once(model: Any):
    """The model copies its last token, of which one stands for the end."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layers" in name:
                parameter.zero_()
        model.lm_head.weight.copy_(torch.nn.functional.normalize(model.model.embed_tokens.weight))
        model.lm_head.weight[END] = model.lm_head.weight[9] * 1.5
    looped, ended = answer(model, [[5, 6], [9]], max_new_tokens=2000)
    assert looped.finish is Finish.REPETITION
    assert looped.tokens == (6,) * MIN_TOKENS
    assert (ended.tokens, ended.finish) == ((), Finish.STOP)


def test_logits_that_are_not_finite_stop_their_own_row_only(model: Any):
    (alone,) = answer(model, [[5, 6, 8]])
    poison = next(token for token in range(9, VOCABULARY) if token not in alone.tokens)
    with torch.no_grad():
        model.model.embed_tokens.weight[poison] = float("inf")
    broken, fine = answer(model, [[5, poison], [5, 6, 8]])
    assert (broken.is_finite, broken.tokens, broken.finish) == (False, (), Finish.LENGTH)
    assert fine.is_finite
    assert fine.tokens == alone.tokens


def test_logits_that_break_on_the_way_keep_what_was_written_before(model: Any):
    (whole,) = answer(model, [[5, 6, 8]])
    at = next(i for i, token in enumerate(whole.tokens) if i > 3 and token not in whole.tokens[:i])
    with torch.no_grad():
        model.model.embed_tokens.weight[whole.tokens[at]] = float("nan")
    (broken,) = answer(model, [[5, 6, 8]])
    assert not broken.is_finite
    assert broken.tokens == whole.tokens[: at + 1]


def test_what_the_model_recommends_of_itself_bends_nothing_and_is_left_as_it_was(model: Any):
    plain = answer(model, PROMPTS)
    own = transformers.GenerationConfig(
        do_sample=True, temperature=0.1, top_k=1, repetition_penalty=5.0, min_new_tokens=30, suppress_tokens=[3, 5]
    )
    model.generation_config = own
    assert answer(model, PROMPTS) == plain
    assert model.generation_config is own


def test_no_more_is_written_than_asked(model: Any):
    rows = answer(model, PROMPTS, max_new_tokens=5, end=39)
    assert [(len(row.tokens), row.finish) for row in rows] == [(5, Finish.LENGTH)] * len(PROMPTS)
