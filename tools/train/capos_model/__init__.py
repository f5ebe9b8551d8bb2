"""The data of capOS's built-in model: conversations, their text form, the tokenizer, the scores."""
