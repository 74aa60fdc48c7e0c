//go:build race

package tape_test

const raceEnabled = true
