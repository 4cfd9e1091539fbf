"""Tokenizers of 512 entries, trained in milliseconds on text made from a seed."""

from random import Random

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from common.checkpoint.tokenizer_source import SpecialTokens, TokenizerSource

VOCAB = 512
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "po", "ra", "se", "ti", "vu", "zen", "한", "é")


def tiny_source(seed: int) -> TokenizerSource:
    """What the folders of tiny_models hold, without writing one."""
    return TokenizerSource(
        tokenizer_json=byte_level_tokenizer(seed).to_str(),
        chat_template=CHAT_TEMPLATE,
        special_tokens=SpecialTokens(
            bos=SPECIAL_TOKENS[1], eos=SPECIAL_TOKENS[2], pad=SPECIAL_TOKENS[0]
        ),
    )


def byte_level_tokenizer(seed: int) -> Tokenizer:
    """A BPE of exactly VOCAB entries: 3 special tokens, 256 bytes, the rest merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[
            AddedToken(text, special=True, normalized=False) for text in SPECIAL_TOKENS
        ],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sentences(Random(seed)), trainer)
    if tokenizer.get_vocab_size() != VOCAB:
        raise AssertionError(f"the text gave {tokenizer.get_vocab_size()} tokens, not {VOCAB}")
    return tokenizer


def byte_fallback_tokenizer(seed: int) -> Tokenizer:
    """The other family: words begin with U+2581, unknown characters become `<0xNN>` tokens."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=special, show_progress=False, limit_alphabet=24
    )
    trained.train_from_iterator(_sentences(Random(seed)), trainer)
    vocab = trained.get_vocab()
    merges = [
        (left, token[len(left) :])
        for token in sorted(vocab, key=vocab.__getitem__)[len(special) :]
        for left in (token[:cut] for cut in range(1, len(token)))
        if left in vocab and token[len(left) :] in vocab
    ]
    tokenizer = Tokenizer(
        models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(special[:3])
    return tokenizer


def _sentences(random: Random) -> list[str]:
    words = ["".join(random.choices(_SYLLABLES, k=random.randint(1, 4))) for _ in range(300)]
    return [" ".join(random.choices(words, k=12)) + "." for _ in range(400)]
