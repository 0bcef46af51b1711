"""The vocabulary of operators and how each is carried out on a batch."""
