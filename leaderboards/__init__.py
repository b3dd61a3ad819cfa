"""Boards, result entries and the static site. Holds nothing yet; evaluation itself is agentgym.evaluation."""
