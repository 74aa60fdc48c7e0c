package sandbox

// Personas returns the names of the listed personas.
func Personas() []string {
	var names []string
	for _, p := range personas {
		names = append(names, p.Persona)
	}
	return names
}

// Codes returns the listed codes.
func Codes() []string {
	var list []string
	for _, c := range codes {
		list = append(list, c.Code)
	}
	return list
}
