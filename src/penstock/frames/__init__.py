"""Frames: many events for one slice of one node, as one opaque row of Spark."""
