"""One matcher per vLLM fuser, over our own `Graph`, judged by a release's `Contract`."""
