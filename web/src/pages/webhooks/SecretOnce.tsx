import { useState } from 'react'
import { Button, Checkbox, CopyButton, Dialog, Input, Notice } from '@/ui'

/** Shows a signing secret once. It closes only after the user confirms that it is stored. */
export function SecretOnce({
  secret,
  title,
  note,
  onClose,
}: {
  secret: string
  title: string
  note?: string
  onClose: () => void
}) {
  const [stored, setStored] = useState(false)
  return (
    <Dialog
      open
      sticky
      size="sm"
      onOpenChange={() => {}}
      title={title}
      footer={
        <Button variant="primary" disabled={!stored} onClick={onClose}>
          Close
        </Button>
      }
    >
      <div className="space-y-3">
        <Notice tone="warn">
          This is the only time that the signing secret is shown. You need it to verify deliveries.
        </Notice>
        <div className="flex flex-wrap items-center gap-2">
          <Input
            aria-label="Signing secret"
            mono
            readOnly
            className="min-w-0 flex-1 basis-52 text-xs"
            value={secret}
            onFocus={(e) => e.target.select()}
          />
          <CopyButton text={secret}>Copy</CopyButton>
        </div>
        {note ? <p className="text-soft">{note}</p> : null}
        <Checkbox label="I stored it" checked={stored} onChange={(e) => setStored(e.target.checked)} />
      </div>
    </Dialog>
  )
}
