package jobs

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

// patience is how long a caller may take to read the next piece of a result.
const patience = 30 * time.Second

func (a operations) result(w http.ResponseWriter, r *http.Request, in *resultInput) error {
	ctx, caller := r.Context(), endpoint.Caller(r.Context())
	j, err := a.Jobs.Get(ctx, caller.Org.ID, in.ID)
	if err == nil {
		err = a.Jobs.CheckRights(ctx, caller, &j)
	}
	if err == nil {
		err = a.requireRecent(ctx, caller, j.Kind)
	}
	if err != nil {
		return err
	}
	result, err := a.Jobs.Result(ctx, &j)
	if err != nil {
		return err
	}
	// A store that does not answer is a problem, and not a response that breaks off.
	if _, err := result.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		if _, isProblem := errors.AsType[*problem.Error](err); isProblem {
			return err
		}
		return problem.ServiceUnavailable.New("The store of results is not responding.").After(2).Because(err)
	}
	if _, err := result.Seek(0, io.SeekStart); err != nil {
		return err
	}
	// Each of many ranges could read and open a block for one byte.
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range")
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", `attachment; filename="`+string(j.ID)+`.ndjson.gz"`)
	h.Set("ETag", result.Tag)
	http.ServeContent(newPatientWriter(w), r, "", result.Modified, result)
	return nil
}

// patientWriter extends the deadline of the connection with every write, since a result may take long to send. The
// response to a range outside of the result has no body.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	// cache is Cache-Control, which net/http removes from errors.
	cache string
	mute  bool
}

func newPatientWriter(w http.ResponseWriter) *patientWriter {
	p := &patientWriter{ResponseWriter: w, control: http.NewResponseController(w), cache: w.Header().Get("Cache-Control")}
	// A read that times out during the response would look as if the caller had gone away. A writer without a connection has no
	// deadlines.
	_ = p.control.SetReadDeadline(time.Time{})
	return p
}

func (p *patientWriter) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		p.mute = true
		p.Header().Del("Content-Type")
		p.Header().Del("Content-Disposition")
		p.Header().Set("Cache-Control", p.cache)
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if p.mute {
		return len(b), nil
	}
	_ = p.control.SetWriteDeadline(clock.Now().Add(patience))
	return p.ResponseWriter.Write(b)
}
