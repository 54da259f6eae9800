"""openbox_core's configuration, without the API key in its repr."""

from __future__ import annotations

from openbox_core.config import OpenBoxConfig


class QuietConfig(OpenBoxConfig):
    """Keep the API key out of the repr of an `OpenBoxConfig`: the published one shows its API key."""

    def __repr__(self) -> str:
        return f"OpenBoxConfig(api_url={self.api_url!r}, agent_name={self.agent_name!r}, api_key=<hidden>)"
