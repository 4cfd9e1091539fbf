"""The tokenizer of a checkpoint, remembered in the cache.

Unpacking the token lists of a GGUF file takes seconds, and every gateway and worker needs the
digest at least. What is remembered is named by the digest of the file it came from; a damaged
record is made again. The files of a folder are read directly: nothing would be gained.
"""

import json
from dataclasses import asdict
from pathlib import Path

from common.checkpoint.atomic_file import atomic_file
from common.checkpoint.checkpoint import open_checkpoint
from common.checkpoint.digest import Digests
from common.checkpoint.errors import CheckpointError
from common.checkpoint.file_lock import file_lock
from common.checkpoint.hf_folder import read_tokenizer
from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource


def prepare_tokenizer(path: Path, cache: Path) -> TokenizerSource:
    if path.is_dir():
        return read_tokenizer(path)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    place = cache / "tokenizers" / f"{Digests(cache).of_file(path)}.json"
    if (source := _read(place)) is not None:
        return source
    with file_lock(place.with_suffix(".lock")):
        if (source := _read(place)) is not None:
            return source
        checkpoint = open_checkpoint(path, cache)
        source = TokenizerSource(
            checkpoint.tokenizer_json(), checkpoint.chat_template(), checkpoint.special_tokens
        )
        with atomic_file(place) as file:
            file.write(json.dumps({**asdict(source), "digest": source.digest}).encode())
    return source


def _read(place: Path) -> TokenizerSource | None:
    """None when there is no record, or one that does not give the digest it was written with."""
    try:
        values = json.loads(place.read_bytes())
        digest = values.pop("digest")
        special = SpecialTokens(**values.pop("special_tokens"))
        source = TokenizerSource(**values, special_tokens=special)
        return source if source.digest == digest else None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
