"""Ways to break the product, and the tests that must notice each."""
