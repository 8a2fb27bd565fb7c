package exploration

// Shorten is for the tests.
func Shorten[A comparable](start func() World[A], trace []A, err error) ([]A, error) {
	return shorten(start, trace, err)
}
