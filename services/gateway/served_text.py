"""Text to ids and back for the one model this gateway serves.

Long texts are encoded on a thread of their own (the tokenizer releases the interpreter there), so
that one big prompt does not hold up the tokens of everybody else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from common.checkpoint.default_model import resolve_model
from common.checkpoint.prepared_tokenizer import prepare_tokenizer
from common.domain.errors import InvalidRequest
from common.text.chat_template import ChatTemplate
from common.text.tokenizer import Tokenizer

LONG_TEXT_CHARACTERS = 16 * 1024


class ServedText:
    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None, digest: str) -> None:
        self.tokenizer = tokenizer
        self.digest = digest
        self._template = template
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def encode(self, text: str, *, add_special: bool) -> list[int]:
        if len(text) <= LONG_TEXT_CHARACTERS:
            return self.tokenizer.encode(text, add_special=add_special)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._encode, text, add_special)

    async def encode_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool,
        kwargs: Mapping[str, object],
    ) -> list[int]:
        """Raises InvalidRequest if these messages make no conversation."""
        if self._template is None:
            raise InvalidRequest("this model has no chat template", param="messages")
        text = self._template.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            kwargs=kwargs,
        )
        # The template has written out whatever special tokens belong there.
        return await self.encode(text, add_special=False)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids, skip_special=False)

    def _encode(self, text: str, add_special: bool) -> list[int]:  # noqa: FBT001  positional for the executor
        return self.tokenizer.encode(text, add_special=add_special)


def local_time() -> datetime:
    return datetime.now().astimezone()


def served_text(model: str, cache: Path) -> ServedText:
    """The tokenizer and template of a checkpoint; the weights are not read. Raises
    CheckpointError."""
    source = prepare_tokenizer(resolve_model(model, cache), cache)
    # Which ids end a sequence comes with the card, not with the tokenizer.
    tokenizer = Tokenizer(source, ())
    template = None
    if source.chat_template is not None:
        template = ChatTemplate(source.chat_template, source.special_tokens, local_time)
    return ServedText(tokenizer, template, source.digest)
