// Enhances pages that also work without scripts: the theme of the dashboard, copy buttons, one language for all samples.
'use strict'
{
  const root = document.documentElement
  const recall = (key) => {
    try {
      return localStorage.getItem('sd.' + key)
    } catch {
      return null
    }
  }
  const remember = (key, value) => {
    try {
      localStorage.setItem('sd.' + key, value)
    } catch {
      // Without storage the choice is not remembered.
    }
  }
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const chosen = recall('theme')
  if (chosen === 'light' || chosen === 'dark') root.dataset.theme = chosen

  const button = (label, className) => {
    const b = document.createElement('button')
    b.type = 'button'
    b.className = className
    b.textContent = label
    return b
  }

  const addTheme = () => {
    const b = button('', 'theme')
    const shown = () => root.dataset.theme || (dark.matches ? 'dark' : 'light')
    const say = () => (b.textContent = shown() === 'dark' ? 'Light' : 'Dark')
    b.addEventListener('click', () => {
      root.dataset.theme = shown() === 'dark' ? 'light' : 'dark'
      remember('theme', root.dataset.theme)
      say()
    })
    b.title = 'Change the theme'
    say()
    document.querySelector('.links').append(b)
  }

  const addCopy = (box) => {
    if (!navigator.clipboard) return
    const b = button('Copy', 'copy')
    b.addEventListener('click', async () => {
      await navigator.clipboard.writeText(box.querySelector('code').textContent)
      b.textContent = 'Copied'
      setTimeout(() => (b.textContent = 'Copy'), 1500)
    })
    box.append(b)
  }

  const show = (language) => {
    for (const input of document.querySelectorAll('.tabs input')) if (input.value === language) input.checked = true
  }

  // Only a box that scrolls is in the Tab order. Its size changes with the window and when its tab is shown, and its content
  // becomes wider when the fonts load.
  const orderTabs = (boxes) => {
    const update = (box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
      else box.removeAttribute('tabindex')
    }
    const sizes = new ResizeObserver((changes) => changes.forEach((c) => update(c.target)))
    boxes.forEach((box) => sizes.observe(box))
    document.fonts.ready.then(() => boxes.forEach(update))
  }

  document.addEventListener('DOMContentLoaded', () => {
    addTheme()
    const side = document.querySelector('.side')
    const here = side.querySelector('[aria-current]')
    if (here && getComputedStyle(side).position === 'sticky') side.scrollTop = here.offsetTop - side.clientHeight / 2
    document.querySelectorAll('.code').forEach(addCopy)
    const language = recall('docs.language')
    if (language) show(language)
    document.addEventListener('change', (e) => {
      if (!e.target.matches('.tabs input')) return
      const before = e.target.getBoundingClientRect().top
      show(e.target.value)
      remember('docs.language', e.target.value)
      scrollBy(0, e.target.getBoundingClientRect().top - before)
    })
    orderTabs(document.querySelectorAll('pre[tabindex], .table[tabindex]'))
    addEventListener('keydown', (e) => {
      if (e.key === '/' && !e.target.closest('input, textarea') && !e.ctrlKey && !e.metaKey) {
        e.preventDefault()
        document.querySelector('#q').focus()
      }
      if (e.key === 'Escape' && location.hash === '#nav') location.hash = '#content'
    })
  })
}
