"""Rounds of a session: cases, ceilings, anchors, controls."""
