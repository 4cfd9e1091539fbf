import json
from datetime import datetime

import pytest
from transformers import PreTrainedTokenizerFast

from common.checkpoint.errors import CheckpointError
from common.checkpoint.tokenizer_source import SpecialTokens
from common.domain.errors import InvalidRequest
from common.text.chat_template import ChatTemplate
from tests.support.tiny_tokenizer import CHAT_TEMPLATE, byte_level_tokenizer

SPECIAL = SpecialTokens(bos="<|im_start|>", eos="<|im_end|>", pad="<|endoftext|>")
NOON = datetime(2025, 3, 4, 12, 30)
CHAT = [
    {"role": "system", "content": "Be <b>short</b> & 'kind'."},
    {"role": "user", "content": "  한 é 😀\n"},
    {"role": "assistant", "content": "Well, "},
]
DEFAULTS = """
{%- if messages[0].role != 'system' %}
    {{- bos_token + 'You are helpful.' }}
{%- endif %}
{% for message in messages %}
    {%- if loop.index0 > 5 %}{% break %}{% endif %}
    {% if message.role == 'assistant' %}
[A]{% generation %}{{ message.content | trim }}{% endgeneration %}{{ eos_token }}
    {% else %}
[{{ message.role | upper }}] {{ message.content }}
    {% endif %}
{% endfor %}
{% if tools is none %}no tools{% endif %}
{% set ns = namespace(found=false) %}{% set ns.found = true %}{{ ns.found }}
{{ messages | tojson }} {{ dict(a=1, b='<') | tojson(indent=2) }}{{ dict.fromkeys(['k'], 1) }}
{% if add_generation_prompt %}[A]{% endif %}
{%- if enable_thinking is defined %} thinking={{ enable_thinking }}{% endif -%}
"""


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, SPECIAL, lambda: NOON)


@pytest.fixture(scope="module")
def reference() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_level_tokenizer(7),
        bos_token=SPECIAL.bos,
        eos_token=SPECIAL.eos,
        pad_token=SPECIAL.pad,
    )


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, DEFAULTS])
@pytest.mark.parametrize("messages", [CHAT, CHAT[1:2], CHAT * 3])
@pytest.mark.parametrize("prompt", [True, False])
def test_the_text_is_what_transformers_renders(
    source: str, messages: list[dict[str, str]], prompt: bool, reference: PreTrainedTokenizerFast
) -> None:
    expected = reference.apply_chat_template(
        messages,
        chat_template=source,
        tokenize=False,
        add_generation_prompt=prompt,
        enable_thinking=True,
    )
    rendered = template(source).render(
        messages, add_generation_prompt=prompt, kwargs={"enable_thinking": True}
    )
    assert rendered == expected


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, "{{ messages[-1].content }} <|im_end|>"])
def test_a_final_message_is_left_open_as_transformers_leaves_it(
    source: str, reference: PreTrainedTokenizerFast
) -> None:
    expected = reference.apply_chat_template(
        CHAT, chat_template=source, tokenize=False, continue_final_message=True
    )
    rendered = template(source).render(
        CHAT, add_generation_prompt=False, continue_final_message=True
    )
    assert rendered == expected
    assert rendered.endswith("Well, ")


def test_text_parts_are_joined_and_nulls_dropped() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    source = "{{ messages[0].content }}{% if messages[0].name is defined %} named{% endif %}"
    message = {"role": "user", "content": parts, "name": None}
    assert template(source).render([message]) == "one\ntwo"
    assert message["name"] is None, "the caller's message is left alone"


def test_the_clock_is_an_argument() -> None:
    source = "{{ strftime_now('%d %b %Y') }}"
    assert template(source).render(CHAT) == "04 Mar 2025"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[9].content }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ dict.__init__.__globals__ }}",
        "{{ dict.mro() }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ namespace(__init__=1) }}",
        "{{ 1 / 0 }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ undefined | tojson }}",
        "{% include 'other' %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_what_a_template_refuses_is_the_clients_error(source: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        template(source).render(CHAT)
    assert caught.value.param == "messages"


def test_the_reason_a_template_gives_is_passed_on() -> None:
    with pytest.raises(InvalidRequest, match="roles must alternate"):
        template("{{ raise_exception('roles must alternate') }}").render(CHAT)


def test_a_text_that_grows_without_end_is_stopped() -> None:
    source = "{% for i in range(60000) %}{{ messages[0].content }}{% endfor %}"
    with pytest.raises(InvalidRequest, match="too long"):
        template(source).render([{"role": "user", "content": "x" * 1000}])


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"content": "no role"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
        [{"role": "user", "content": ["bare"]}],
    ],
)
def test_messages_we_cannot_read_are_refused(messages: list[dict[str, object]]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        template(CHAT_TEMPLATE).render(messages)
    assert caught.value.param == "messages"


def test_a_final_message_that_the_template_drops_cannot_be_continued() -> None:
    for source, messages in (
        ("{{ messages[0].content }}", CHAT),
        (CHAT_TEMPLATE, [{"role": "assistant", "content": None}]),
    ):
        with pytest.raises(InvalidRequest, match="final message"):
            template(source).render(
                messages, add_generation_prompt=False, continue_final_message=True
            )


def test_variables_of_ours_cannot_be_replaced() -> None:
    with pytest.raises(InvalidRequest) as caught:
        template(CHAT_TEMPLATE).render(CHAT, kwargs={"messages": []})
    assert caught.value.param == "chat_template_kwargs"
    with pytest.raises(InvalidRequest) as caught:
        template(CHAT_TEMPLATE).render(CHAT, continue_final_message=True)
    assert caught.value.param == "continue_final_message"


def test_json_is_written_without_html_escapes() -> None:
    assert json.loads(template("{{ messages | tojson }}").render(CHAT)) == CHAT
    assert "<b>" in template("{{ messages | tojson }}").render(CHAT)


def test_a_template_with_an_error_is_the_models_fault() -> None:
    with pytest.raises(CheckpointError, match="chat template cannot be read"):
        template("{% if %}")
