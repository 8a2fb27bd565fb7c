// This file lets seeded.go declare a function that has its body in package runtime.
