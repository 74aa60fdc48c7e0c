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

// maxLineSize limits a line, in bytes. The service sends at most a quarter of a megabyte of data.
const maxLineSize = 8 << 20

var errLineTooLong = errors.New("a line of the stream is too long")

// frames reads server-sent events. A frame is complete only with the empty line after it, so a
// truncated one is dropped.
type frames struct {
	lines *bufio.Reader
	// retry is the reconnect delay that the server requested, or 0.
	retry time.Duration
	// onRead is called after every line, for the silence timer.
	onRead func()
}

func newFrames(body io.Reader, onRead func()) *frames {
	return &frames{lines: bufio.NewReaderSize(body, 64<<10), onRead: onRead}
}

func (f *frames) next() (frame, error) {
	var one frame
	var hasData bool
	for {
		line, err := f.line()
		if err != nil {
			return frame{}, err
		}
		f.onRead()
		if len(line) == 0 {
			if hasData {
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
			if hasData {
				one.data = append(one.data, '\n')
			}
			one.data, hasData = append(one.data, value...), true
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 {
				f.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line reads a line with its line break. A line without one is an error.
func (f *frames) line() ([]byte, error) {
	var line []byte
	for {
		part, err := f.lines.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) && len(line) < maxLineSize {
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
