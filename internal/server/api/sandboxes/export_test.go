package sandboxes

// Personas are those that callers are told of.
func Personas() []string {
	var names []string
	for _, p := range personas {
		names = append(names, p.Persona)
	}
	return names
}

// Codes are those that callers are told of.
func Codes() []string {
	var list []string
	for _, c := range codes {
		list = append(list, c.Code)
	}
	return list
}
