"""Programs that fail of a known write: by hand, one folder a case, and generated (`corpus.generate`)."""
