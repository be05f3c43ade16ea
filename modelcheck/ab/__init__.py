"""A model in vLLM twice: by vLLM's own implementation, and by its Transformers backend."""
