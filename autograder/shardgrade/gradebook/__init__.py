"""nbgrader's gradebook: our own tables beside its, reading, recording, backing up."""
