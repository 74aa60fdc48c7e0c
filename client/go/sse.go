package stagedoor

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// frame is one server-sent event.
type frame struct {
	id, event string
	data      []byte
}

// longestLine bounds what a line may have; the service sends at most a quarter of a megabyte of data.
const longestLine = 8 << 20

var errLineTooLong = errors.New("a line of the stream is too long")

// frames reads server-sent events. A frame counts only with the empty line behind it, so one that broke off is not seen.
type frames struct {
	lines *bufio.Reader
	// retry is how long the server wants clients to stay away; 0 if it does not say.
	retry time.Duration
	// heard is called whenever something came.
	heard func()
}

func newFrames(body io.Reader, heard func()) *frames {
	return &frames{lines: bufio.NewReaderSize(body, 64<<10), heard: heard}
}

func (f *frames) next() (frame, error) {
	var one frame
	var some bool
	for {
		line, err := f.line()
		if err != nil {
			return frame{}, err
		}
		f.heard()
		if len(line) == 0 {
			if some {
				return one, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			one.id = string(value)
		case "event":
			one.event = string(value)
		case "data":
			if some {
				one.data = append(one.data, '\n')
			}
			one.data, some = append(one.data, value...), true
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 {
				f.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line reads up to the end of a line, which must be there.
func (f *frames) line() ([]byte, error) {
	var line []byte
	for {
		part, err := f.lines.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) && len(line) < longestLine {
			continue
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, errLineTooLong
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
