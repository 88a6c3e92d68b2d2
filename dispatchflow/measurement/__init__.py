"""The rounds of a session: cases, ceilings, anchors, controls."""
