"""What HunyuanOCR can be asked for."""

from __future__ import annotations

import re

import pytest

from pipeline.engines.hunyuan.prompts import DEFAULT_TASK, task_named
from pipeline.errors import ConfigurationError

FORMATS = {
    "parse": "markdown",
    "text": "text",
    "spotting": "text",
    "spotting-json": "json",
    "table": "html",
    "formula": "markdown",
    "chart": "markdown",
    "subtitles": "text",
    "layout": "text",
    "fields:Name,Total": "json",
    "translate:en": "markdown",
    "translate:zh": "markdown",
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_task_has_a_prompt_in_both_languages(name: str):
    chinese, english = (task_named(name, language) for language in ("zh", "en"))
    assert chinese.name == english.name == name
    assert chinese.format == english.format == FORMATS[name]
    assert re.search("[一-鿿]", chinese.prompt)
    assert english.prompt.isascii()
    assert "<" not in chinese.prompt + english.prompt, "nothing is left to be put in"


def test_the_chinese_wording_is_the_default():
    assert task_named("text") == task_named("text", "zh")
    assert task_named("text").prompt == "提取图中的文字。"


def test_the_default_task_is_one():
    assert task_named(DEFAULT_TASK).format == "markdown"


def test_lines_with_boxes_come_with_spotting_only():
    assert {name for name in FORMATS if task_named(name).has_boxes} == {"spotting", "spotting-json"}


def test_names_of_fields_stand_in_the_prompt_as_on_the_model_card():
    task = task_named("fields: 单价 ,Total,", "en")
    assert task.name == "fields:单价,Total"
    assert task.prompt == (
        "Extract the content of the fields: ['单价', 'Total'] from the image and return it in JSON format."
    )
    assert "['a<names>']" in task_named("fields:a<names>").prompt


def test_the_language_to_translate_into_is_named_in_the_language_of_the_prompt():
    assert task_named("translate:zh").prompt.endswith("翻译为中文。")
    assert task_named("translate:en").prompt.endswith("翻译为英文。")
    assert "into Chinese" in task_named("translate:zh", "en").prompt
    assert "into English" in task_named("translate:en", "en").prompt


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pars", "did you mean 'parse'"),
        ("spoting-json", "did you mean 'spotting-json'"),
        ("field:a", "did you mean 'fields'"),
        ("text:now", "there is no task 'text:now'"),
        ("", "known are chart, fields"),
        ("fields", "fields:NAME,NAME"),
        ("fields: , ", "fields:NAME,NAME"),
        ("translate:xx", "translate:en or translate:zh"),
        ("translate", "translate:en or translate:zh"),
    ],
)
def test_a_task_that_is_none_is_refused_with_what_may_be_meant(name: str, said: str):
    with pytest.raises(ConfigurationError, match=said):
        task_named(name)


def test_a_language_without_prompts_is_refused():
    with pytest.raises(ConfigurationError, match="zh, en, not 'de'"):
        task_named("text", "de")
