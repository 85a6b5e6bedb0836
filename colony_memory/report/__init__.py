"""A vault as one page of HTML that needs nothing else: no server, no network, no other file."""

from __future__ import annotations

from colony_memory.report.page import render

__all__ = ["render"]
