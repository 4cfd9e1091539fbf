"""What a client may give as a prompt, told apart and checked.

Messages for chat; a text, texts, token ids or lists of token ids for completions.
"""

from collections.abc import Sequence

from common.domain.errors import InvalidRequest

MAX_PROMPTS = 64
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
Prompt = str | list[int]


def chat_messages(messages: Sequence[dict[str, object]] | None) -> list[dict[str, object]]:
    """As the template wants them: text alone, and `developer` under its older name."""
    if not messages:
        raise InvalidRequest("messages must hold at least one message", "messages")
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _message(message: dict[str, object], param: str) -> dict[str, object]:
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        allowed = ", ".join(sorted(_ROLES))
        raise InvalidRequest(f"{param}.role must be one of {allowed}", f"{param}.role")
    plain = dict(message)
    plain["role"] = "system" if role == "developer" else role
    content = _content(message.get("content"), f"{param}.content")
    if content is None and not message.get("tool_calls"):
        content = ""
    plain["content"] = content
    return plain


def _content(content: object, param: str) -> str | None:
    match content:
        case None | str():
            return content
        case list():
            return "\n".join(_part(part, param) for part in content)
        case _:
            raise InvalidRequest(f"{param} must be a text or a list of text parts", param)


def _part(part: object, param: str) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind)} if kind != "text":
            raise InvalidRequest(f"parts of type {kind[:40]} are not supported", param)
        case _:
            raise InvalidRequest("a content part must be {type: text, text: ...}", param)


def completion_prompts(prompt: object, vocab: int) -> list[Prompt]:
    """At least one; raises InvalidRequest on anything that is empty."""
    prompts = _listed(prompt)
    if not prompts or len(prompts) > MAX_PROMPTS:
        raise InvalidRequest(f"prompt must hold 1 to {MAX_PROMPTS} prompts", "prompt")
    return [_prompt(entry, vocab) for entry in prompts]


def _listed(prompt: object) -> list[object]:
    """One prompt is a list of one. A list of integers is one prompt."""
    if isinstance(prompt, list):
        return [prompt] if prompt and type(prompt[0]) is int else prompt
    if prompt is None:
        raise InvalidRequest("prompt is required", "prompt")
    return [prompt]


def _prompt(prompt: object, vocab: int) -> Prompt:
    match prompt:
        case "" | []:
            raise InvalidRequest("prompt must not be empty", "prompt")
        case str():
            return prompt
        case list() if all(type(token) is int for token in prompt):
            check_ids(prompt, vocab, "prompt")
            return prompt
        case _:
            message = "prompt must be a text, a list of texts, token ids or a list of token ids"
            raise InvalidRequest(message, "prompt")


def check_ids(ids: Sequence[int], vocab: int, param: str) -> None:
    for token in ids:
        if not 0 <= token < vocab:
            raise InvalidRequest(f"token id {token} is not in 0..{vocab - 1}", param)
