"""What several templates share."""
