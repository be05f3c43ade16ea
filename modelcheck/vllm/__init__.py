"""What really fuses: vLLM's own backend class, built in a worker process."""
