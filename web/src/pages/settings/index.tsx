import { useNavigate, useParams } from '@tanstack/react-router'
import { useSession } from '@/shell/session'
import { Card, Empty, PageHead, Tabs } from '@/ui'
import { ConnectPage } from './ConnectPage'
import { Notices } from './Notices'
import { Organisation } from './Organisation'
import { Origins } from './Origins'
import { Sessions } from './Sessions'
import { Support } from './Support'
import { Team } from './Team'

const sections = [
  { value: 'org', label: 'Organisation' },
  { value: 'team', label: 'Team' },
  { value: 'notices', label: 'Notices' },
  { value: 'page', label: 'Connect page' },
  { value: 'origins', label: 'Origins & URLs' },
  { value: 'sessions', label: 'Sessions' },
  { value: 'support', label: 'Support access' },
]

export default function Settings() {
  const { org } = useSession()
  const { section = 'org' } = useParams({ strict: false }) as { section?: string }
  const navigate = useNavigate()
  const known = sections.some((s) => s.value === section)
  return (
    <>
      <PageHead title="Team & settings" hint={org.name} />
      <Tabs
        label="Settings"
        tabs={sections}
        value={known ? section : ''}
        onChange={(v) =>
          void navigate(v === 'org' ? { to: '/settings' } : { to: '/settings/$section', params: { section: v } })
        }
      >
        {(v) =>
          v === 'team' ? (
            <Team />
          ) : v === 'notices' ? (
            <Notices />
          ) : v === 'page' ? (
            <ConnectPage />
          ) : v === 'origins' ? (
            <Origins />
          ) : v === 'sessions' ? (
            <Sessions />
          ) : v === 'support' ? (
            <Support />
          ) : (
            <Organisation />
          )
        }
      </Tabs>
      {known ? null : (
        <Card className="mt-4">
          <Empty title="Section not found">Choose one above.</Empty>
        </Card>
      )}
    </>
  )
}
