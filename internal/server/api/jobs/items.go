package jobs

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

// putItems gives a bulk job its items.
func (a operations) putItems(w http.ResponseWriter, r *http.Request, in *itemsInput) error {
	ctx, caller := r.Context(), endpoint.Caller(r.Context())
	j, err := a.Jobs.Get(ctx, caller.Org.ID, in.ID)
	if err != nil {
		return err
	}
	if given, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || given != ndjson {
		return problem.UnsupportedMediaType.New("Send the items with the header Content-Type: " + ndjson + ".")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpload))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return problem.PayloadTooLarge.Newf("The upload is larger than %d bytes.", maxUpload).With("limit", maxUpload)
		}
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return problem.RequestTimeout.New("The upload did not arrive in time.").Because(err)
		}
		return problem.InvalidRequest.New("The upload could not be read completely.").Because(err)
	}
	draft, err := a.SDK.PlanItems(ctx, caller, &j, text)
	if err != nil {
		return err
	}
	given, err := a.view(a.Jobs.Give(ctx, caller, endpoint.By(ctx), in.ID, draft))
	if err != nil {
		return err
	}
	return endpoint.WriteJSON(w, http.StatusOK, given.Body)
}
