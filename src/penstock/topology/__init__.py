"""The topology language: a pure description of what shall run."""
