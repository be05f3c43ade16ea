"""What transformers releases have and no longer have, as data, and the release judged by."""
