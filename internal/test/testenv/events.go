package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// recordEvents makes a database remember every event that is written to its outbox. Ingest deletes the rows of the
// outbox, and a test may run several processes, so only the database sees all of them.
const recordEvents = `
CREATE SCHEMA testenv;
CREATE TABLE testenv.emitted (kind text NOT NULL, data jsonb NOT NULL);
CREATE FUNCTION testenv.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	INSERT INTO testenv.emitted VALUES (NEW.kind, NEW.data);
	RETURN NEW;
END $$;
CREATE TRIGGER testenv_record AFTER INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION testenv.record();`

// checkEmitted fails the test for every event in the database that does not match the OpenAPI document.
func checkEmitted(t testing.TB, url string) {
	t.Helper()
	faults, err := emittedFaults(context.Background(), url)
	if err != nil {
		t.Errorf("read the events that the test emitted: %v", err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

func emittedFaults(ctx context.Context, url string) (faults []error, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT DISTINCT kind, data::text FROM testenv.emitted")
	if err != nil {
		return nil, err
	}
	var kind, data string
	_, err = pgx.ForEachRow(rows, []any{&kind, &data}, func() error {
		RecordEvent(kind, nil, []byte(data))
		if fault := eventFault(kind, dataPart, []byte(data)); fault != nil {
			faults = append(faults, fault)
		}
		return nil
	})
	return faults, err
}

// CheckEvent validates a whole event against the OpenAPI document. Events in the outbox of a test's database are checked
// without it.
func CheckEvent(t testing.TB, text []byte) {
	t.Helper()
	var e struct{ Event string }
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	RecordEvent(e.Event, text, nil)
	if err := eventFault(e.Event, "", text); err != nil {
		t.Error(err)
	}
}

// dataPart is where the schema of an event has that of its data.
const dataPart = "/allOf/1/properties/data"

// eventFault validates an event, or a part of it, against the committed OpenAPI document, which lists every member.
func eventFault(kind, part string, text []byte) error {
	schemas, err := committed()
	if err != nil {
		return err
	}
	place := "#/webhooks/" + kind + "/post/requestBody/content/application~1json/schema" + part
	if err := schemas.Validate(place, text); err != nil {
		return fmt.Errorf("the event %s does not match openapi/openapi.json: %w\n%s", kind, err, text)
	}
	return nil
}

var committed = sync.OnceValues(func() (*Schemas, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "openapi", "openapi.json"))
	if err != nil {
		return nil, err
	}
	return NewSchemas(text)
})
