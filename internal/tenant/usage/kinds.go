package usage

// classEnds are the upper ends, in milliseconds, of the classes by which a histogram counts durations. One more class
// has the calls that took longer. Stored counts depend on these values: append new ones, but never change an existing
// one.
var classEnds = [...]float64{
	1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 40_000,
}

const classes = len(classEnds) + 1
