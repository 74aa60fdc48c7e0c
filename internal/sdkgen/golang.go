package sdkgen

// goFiles writes the Go library.
func goFiles(*Model) (map[string][]byte, error) { return map[string][]byte{}, nil }
