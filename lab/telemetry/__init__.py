"""What one operation costs, by role and resource, read from the kernel's own accounting."""
