"""What a person looks at: verification, benchmarks, profiles and explanations."""
