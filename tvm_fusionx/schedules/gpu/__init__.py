"""Schedules for GPUs: one work-item computes a few results, a work-group shares what it reads."""
