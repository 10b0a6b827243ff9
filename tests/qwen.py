"""A checkpoint like Qwen2.5's in everything but size: architecture, kind of tokenizer, chat template, files, quirks.

As in the released ones there are more rows of embeddings than tokens, weights are in bfloat16, answers end with either
of two tokens, and the template puts a system message of its own before a conversation that has none.
"""

from pathlib import Path

#: How Qwen2's tokenizer cuts text before it merges bytes.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou help people.<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
#: What merges are learnt from.
TEXTS = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a drawer 2, a fridge 1.",
    "Your task is to: put a clean mug in the coffee machine. You open the drawer 1. In it, you see a spoon 2.",
    "go to cabinet 1, open fridge 1, take mug 1 from table 1, move mug 1 to shelf 2, examine, inventory, look",
    "WebShop [SEP] Instruction: [SEP] Find me a product with color: blue, and price lower than 60.00 dollars",
    "click[buy now] click[back to search] click[next >] search[words] [SEP] Page 1 (Total results: 50) [SEP]",
    "You play a game in text: each turn you read what you observe and choose one action, until the task is done.",
    "First think about what to do next, between <think> and </think>. Then give the action: <action> </action>",
    "[observation 3, now] You can do now: It began like this: You have taken 4 steps; the last 2: [action 1]",
)


def make_checkpoint(folder: Path, tied: bool = True, seed: int = 0) -> Path:
    """Write a checkpoint with random weights into a folder, as it might be downloaded, and return the folder.

    Args:
        tied: whether embeddings and output layer share their weights, as in the 1.5B model (not in the 7B).
        seed: of the weights.
    """
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    bpe.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START, END],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    pad, end = tokenizer.convert_tokens_to_ids([PAD, END])
    config = Qwen2Config(
        vocab_size=len(tokenizer) + 15,
        hidden_size=32,
        intermediate_size=88,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        rope_theta=1e6,
        use_sliding_window=False,
        tie_word_embeddings=tied,
        bos_token_id=pad,
        eos_token_id=end,
        dtype="bfloat16",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(
        bos_token_id=pad, eos_token_id=[end, pad], pad_token_id=pad, do_sample=True, temperature=0.7, top_p=0.8
    )
    model.save_pretrained(folder)
    return folder
