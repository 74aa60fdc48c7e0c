package usage

// classEnds are the upper ends of the classes that calls are counted in by how long they took, in milliseconds; what took longer is in
// one class more. They are part of what is stored: others may be added behind the last, and none be changed.
var classEnds = [...]float64{
	1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 40_000,
}

// classes is how many there are.
const classes = len(classEnds) + 1
