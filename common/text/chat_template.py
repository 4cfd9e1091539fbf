"""Messages to the text that a model was trained to continue.

The template is code that came with the model, and messages come from clients, so it runs in the
immutable sandbox of jinja2 with the names that Hugging Face's own renderer offers and no others.
What a template raises is the client's error: it says that these messages make no conversation.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from common.checkpoint.errors import CheckpointError
from common.checkpoint.tokenizer_source import SpecialTokens
from common.domain.errors import InvalidRequest

Message = Mapping[str, object]

_MAX_RENDERED_CHARACTERS = 16 << 20
_END_MARK = "\ue000end of the final message\ue000"
_OURS = frozenset({"messages", "add_generation_prompt"})
_TEMPLATE_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    def __init__(
        self, source: str, special_tokens: SpecialTokens, now: Callable[[], datetime]
    ) -> None:
        """`now` is the local time that some templates print."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": lambda format: now().strftime(format),
            "dict": _Dict(),
            "namespace": _Namespace,
        }
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise CheckpointError(f"the chat template cannot be read: {error}") from error
        self._constants = _constants(special_tokens)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        kwargs: Mapping[str, object] | None = None,
    ) -> str:
        """`continue_final_message` leaves the last message open, so that the model goes on with
        it. `kwargs` are further variables of the template."""
        extra = {} if kwargs is None else kwargs
        if taken := _OURS & extra.keys():
            raise InvalidRequest(f"{min(taken)} cannot be set here", param="chat_template_kwargs")
        if continue_final_message and add_generation_prompt:
            raise InvalidRequest(
                "continue_final_message and add_generation_prompt exclude each other",
                param="continue_final_message",
            )
        plain = [_plain(message) for message in messages]
        if not plain:
            raise InvalidRequest("there is no message", param="messages")
        if not continue_final_message:
            return self._run(plain, extra, add_generation_prompt=add_generation_prompt)
        return self._run_open(plain, extra)

    def _run_open(self, messages: list[dict[str, object]], extra: Mapping[str, object]) -> str:
        """Render with a mark at the end of the last message, and cut there."""
        content = messages[-1].get("content")
        if not isinstance(content, str):
            raise InvalidRequest("the final message has no text to continue", param="messages")
        messages[-1]["content"] = content + _END_MARK
        text, mark, _ = self._run(messages, extra, add_generation_prompt=False).rpartition(
            _END_MARK
        )
        if not mark:
            raise InvalidRequest("the template drops the final message", param="messages")
        return text

    def _run(
        self,
        messages: list[dict[str, object]],
        extra: Mapping[str, object],
        *,
        add_generation_prompt: bool,
    ) -> str:
        variables = {
            "tools": None,
            "documents": None,
            **self._constants,
            **extra,
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
        }
        parts: list[str] = []
        size = 0
        try:
            for part in self._template.generate(variables):
                parts.append(part)
                size += len(part)
                if size > _MAX_RENDERED_CHARACTERS:
                    raise InvalidRequest("the rendered prompt is too long", param="messages")
        except _TEMPLATE_FAILURES as error:
            raise InvalidRequest(
                f"the chat template refused the messages: {error}", param="messages"
            ) from error
        return "".join(parts)


def _plain(message: Message) -> dict[str, object]:
    """Without null fields, which templates would print; content parts joined to one text."""
    if not isinstance(message.get("role"), str):
        raise InvalidRequest("a message needs a role", param="messages")
    plain = {key: value for key, value in message.items() if value is not None}
    if isinstance(content := plain.get("content"), list):
        plain["content"] = "\n".join(map(_part_text, content))
    return plain


def _part_text(part: object) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            raise InvalidRequest("only text parts are understood", param="messages")


def _constants(special_tokens: SpecialTokens) -> dict[str, str]:
    named = {
        "bos_token": special_tokens.bos,
        "eos_token": special_tokens.eos,
        "pad_token": special_tokens.pad,
        "unk_token": special_tokens.unk,
    }
    return {name: token for name, token in named.items() if token is not None}


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  the signature templates know
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """jinja2's own would escape HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


class _GenerationTag(Extension):
    """`{% generation %}` marks what trainers learn from; here its body is printed as it is."""

    def __init__(self, environment: jinja2.Environment) -> None:
        super().__init__(environment)
        self.tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Dict:
    """`dict(...)` in a template, without the attributes of the type."""

    def __call__(self, *args: Mapping[str, object], **kwargs: object) -> dict[str, object]:
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[str], value: object = None) -> dict[str, object]:
        return dict.fromkeys(keys, value)


class _Namespace(Namespace):
    """Refuses names with which a template could reach Python's internals."""

    def __init__(self, *args: Mapping[str, object], **kwargs: object) -> None:
        super().__init__()
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a template cannot set the attribute {name!r}")
        super().__setitem__(name, value)
