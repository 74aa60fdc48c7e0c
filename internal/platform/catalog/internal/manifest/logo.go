package manifest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// logoFile is the optional image of the platform.
const logoFile = "logo.svg"

// maxLogo bounds the image, in bytes. It is part of responses.
const maxLogo = 32 << 10

// readLogo reads the image of the platform. It returns nil if there is none.
func readLogo(fsys fs.FS) ([]byte, *Fault) {
	text, err := fs.ReadFile(fsys, logoFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = checkLogo(text)
	}
	if err != nil {
		return nil, &Fault{Pos{logoFile, 0}, err.Error()}
	}
	return text, nil
}

// checkLogo checks that an image is SVG without scripts and without anything from elsewhere. Browsers do not run the
// scripts of an image, but people may open the file itself.
func checkLogo(text []byte) error {
	if len(text) > maxLogo {
		return fmt.Errorf("is larger than %d bytes", maxLogo)
	}
	dec := xml.NewDecoder(bytes.NewReader(text))
	for first := true; ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) && !first {
			return nil
		}
		if err != nil {
			return errors.New("is not an SVG image: it is not valid XML")
		}
		switch token := token.(type) {
		case xml.Directive:
			return errors.New("must not have a document type")
		case xml.StartElement:
			if first && token.Name.Local != "svg" {
				return errors.New("is not an SVG image: its element is " + token.Name.Local)
			}
			first = false
			if err := checkElement(token); err != nil {
				return err
			}
		}
	}
}

func checkElement(e xml.StartElement) error {
	switch strings.ToLower(e.Name.Local) {
	case "script", "foreignobject", "style", "image", "a":
		return errors.New("must not have the element " + e.Name.Local)
	}
	for _, a := range e.Attr {
		name := strings.ToLower(a.Name.Local)
		if strings.HasPrefix(name, "on") || name == "href" && !strings.HasPrefix(a.Value, "#") {
			return errors.New("must not have the attribute " + a.Name.Local + " of " + e.Name.Local)
		}
	}
	return nil
}
