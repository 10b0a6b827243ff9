"""The policy: how it reads, samples and learns."""
