"""The settings that a rule of this family judges."""

from __future__ import annotations

from modelcheck.graph.values import Config
from modelcheck.rules.base import Context
from modelcheck.source.repo_config import RepoConfig


def settings_of(context: Context, config: Config) -> RepoConfig:
    """A model's configuration together with the config.json beside it."""
    repo = context.repo
    given = repo.config if repo is not None else {}
    inner = given.get("text_config")
    return RepoConfig(
        config, inner if isinstance(inner, dict) else given, repo.config_text if repo else ""
    )
