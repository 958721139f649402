"""What is measured, against which peers, and how: see bench/README.md."""
