"""The conversations that the model is trained with and judged by: tools, sentences, scenes, answers."""
